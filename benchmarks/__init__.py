"""Measurements that confirm or refute what is said about the bundle; results in docs/benchmarks.md.

pictures, crops, timing, machine          what is measured, on what, and how figures are formed
tutorial, rivals, preprocess, instance    one image in one process: speed
pipelines, references, parity             one image in one process: agreement
apps/, models/, services, repositories    servers under test
closed_loop, open_loop, process_tree      load, and what it costs
end_to_end, sweep, laws, footprint        the experiments made of them
targets, results, document, page_*        docs/benchmarks.md, from the results alone
plots, summary, capacity                  pictures, the tables of `make bench`, `make plan-capacity`
"""
