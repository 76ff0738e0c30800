"""Kafka's wire protocol: message tables and their compiled codec, error codes, record batches. No I/O, no clock.

schema.py    the notation of schemas/*.txt, one file per request and response
model.py     message classes made from it; messages.py hands them out by name, messages.pyi types them
generate.py  straight-line source of a decoder or encoder; codec.py compiles and keeps them
apis.py      keys, names, request and response headers; errors.py the codes
batch.py, records.py, compression.py, legacy.py   what the `records` fields hold
"""
