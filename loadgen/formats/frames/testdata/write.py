# Writes the files of this directory with pyarrow and Polars.
import datetime
import polars
import pyarrow
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet

start = datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.timezone.utc)
rows = [
    {
        "time": start + datetime.timedelta(milliseconds=250 * i),
        "prompt": 100 + i,
        "answer": 5 + i % 3,
        "ids": [0, 1, i] if i % 2 else None,
        "model": "chat" if i % 4 else None,
        "score": i / 4,
        "turns": [{"role": "user", "content": f"question {i} \"ä\""}, {"role": "assistant", "content": "a long answer of more than twelve bytes"}][: i % 3],
        "ok": i % 2 == 0,
    }
    for i in range(10)
]
schema = pyarrow.schema(
    [
        ("time", pyarrow.timestamp("us", "UTC")),
        ("prompt", pyarrow.int32()),
        ("answer", pyarrow.uint16()),
        ("ids", pyarrow.list_(pyarrow.int64())),
        ("model", pyarrow.dictionary(pyarrow.int8(), pyarrow.string())),
        ("score", pyarrow.float64()),
        ("turns", pyarrow.list_(pyarrow.struct([("role", pyarrow.string()), ("content", pyarrow.string())]))),
        ("ok", pyarrow.bool_()),
    ]
)
table = pyarrow.Table.from_pylist(rows, schema=schema)
pyarrow.feather.write_feather(table, "lz4.feather", chunksize=4)
pyarrow.feather.write_feather(table, "zstd.feather", compression="zstd")
pyarrow.feather.write_feather(table, "plain.feather", compression="uncompressed")
with pyarrow.OSFile("stream.arrow", "wb") as out, pyarrow.ipc.new_stream(out, schema) as w:
    w.write_table(table, max_chunksize=3)
pyarrow.parquet.write_table(table, "pyarrow.parquet", row_group_size=4)
polars.from_arrow(table).write_ipc("polars.arrow", compression="zstd")
polars.from_arrow(table).write_parquet("polars.parquet")
