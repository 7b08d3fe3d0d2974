"""Measurements that confirm or refute what is said about the bundle; results in docs/benchmarks.md.

pictures, rivals, timing         what is measured, against what, and how figures are formed
preprocess, parity               one image in one process: speed and agreement
process_tree, closed_loop, open_loop, services, repositories
                                 whole servers under load
end_to_end, sweep, simulated_gpu, memory, start_up
                                 the experiments made of them
capacity                         what the figures mean for another machine
document, plots                  docs/benchmarks.md and its pictures, from the results alone
"""
