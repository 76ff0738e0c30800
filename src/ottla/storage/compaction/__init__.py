"""Compaction of a log: which one and how far (decisions), the work in a process of its own (worker, clean, offset_map,
transactions), and taking its result back into the log (swap). What goes over is a `job`.
"""
