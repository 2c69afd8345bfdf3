"""Parquet files, made and read. Run by `foreseek lab bench jobs`: python3 columns.py make|duckdb|pyarrow FOLDER [ROWS]"""

import glob
import sys

what, folder = sys.argv[1:3]
files = sorted(glob.glob(f"{folder}/*.parquet"))

if what == "make":
    import duckdb

    each = int(sys.argv[3])
    database = duckdb.connect(config={"threads": 1})
    for number in range(2):
        # Six columns of hashes, which compress to nothing less.
        columns = ", ".join(f"hash(range * 6 + {column}) AS c{column}" for column in range(6))
        rows = f"SELECT {columns} FROM range({number * each}, {(number + 1) * each})"
        database.execute(f"COPY ({rows}) TO '{folder}/part{number}.parquet' (FORMAT parquet)")
elif what == "duckdb":
    import duckdb

    database = duckdb.connect(config={"threads": 2, "memory_limit": "200MB"})
    query = "SELECT bit_xor(c0), bit_xor(c2), bit_xor(c4), count(*) FROM read_parquet($files)"
    sums = database.execute(query, {"files": files}).fetchone()
    sys.exit(0 if sums[3] > 0 else "no rows")
elif what == "pyarrow":
    import pyarrow.parquet

    rows = 0
    for path in files:
        for batch in pyarrow.parquet.ParquetFile(path).iter_batches(columns=["c1", "c3"]):
            rows += batch.num_rows
    sys.exit(0 if rows > 0 else "no rows")
