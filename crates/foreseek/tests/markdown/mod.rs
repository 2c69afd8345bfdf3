//! The links of a page in Markdown.

/// The targets of a page's links.
pub(crate) fn links(page: &str) -> impl Iterator<Item = &str> {
    page.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

/// The file that a link leads to, without the place within it; `None` for a place within the same page or elsewhere than
/// in files.
pub(crate) fn file_of(link: &str) -> Option<&str> {
    let file = link.split('#').next().unwrap_or_default();
    let elsewhere = file.is_empty() || file.contains("://") || file.starts_with("mailto:");
    (!elsewhere).then_some(file)
}
