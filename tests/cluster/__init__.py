"""More than one machine: which tables and statements lie in one shard, and a network of hosts to measure."""
