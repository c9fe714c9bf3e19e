"""The stores of processors, as Kafka names them: rows one at a time, with the changes of this epoch among them."""
