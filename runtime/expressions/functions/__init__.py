"""What functions of SQL compute on Arrow: its kernels where they do as Spark SQL does, and what is composed of them."""
