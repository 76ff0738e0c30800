"""Side-by-side runs of ottla and Apache Kafka on one machine: `python -m bench` (or `make bench`).

kafka.py, ottla.py   how each system is installed, started and configured
process.py           a broker process: start, processor seconds, resident memory, stop
wire.py              the few admin requests that a run needs, over a plain socket
loadgen/, loadgen.py the load generator (C) and its Python face
workloads.py         what is measured; each workload gives named figures
restarts.py, upkeep.py, groups.py, transactions.py
                     more of them, by subject
streams/             ottla's streams and Kafka Streams: what is measured of them, and how
kafka_streams/       Kafka Streams' program
rounds.py            the order of a run: rounds, alternation, discarded first round
report.py, chart.py  result file, table, markdown page, SVG

Only the standard library is used (and confluent-kafka as a client with transactions), and nothing of ottla's: the
judge shares no code with the judged. (streams/ottla_app.py is one of the judged.)
"""
