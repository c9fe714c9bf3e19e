"""The two sides of a measurement: Headwater and its peer, each in a process of its own."""
