"""A Spark session from start to end: the Java it needs, its settings, its folder, and the loss of its JVM."""
