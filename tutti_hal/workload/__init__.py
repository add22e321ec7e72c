"""The reference workload: a KV cache on drives, replayed from a request trace, every byte judged by an oracle.

==============  ===========================================================================================
``shapes``      what one block of one layer's keys or values weighs; how a model is scaled down, and said so
``trace``       requests in the public Mooncake JSONL format: read, check, write
``generator``   a seeded trace with the published trace's lengths and prefix sharing
``cache``       which hash ids are resident, and in which slot: LRU, bounded, prefix closed
``placement``   where a slot's tensors lie: drive and byte offset, round-robin so that a layer spreads
``oracle``      the bytes of every tensor from its name alone, and the checksum that a read must have
``compute``     a calibrated stand-in for the compute of a layer
``transport``   what the replay needs from whatever moves bytes
``replay``      the pipeline: reads of layer L+1, compute of L, writes of L-1
==============  ===========================================================================================
"""
