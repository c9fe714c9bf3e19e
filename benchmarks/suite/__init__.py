"""The measurements of `make bench`: Headwater beside Spark, in turn, and beside the physical limit."""
