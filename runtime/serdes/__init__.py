"""Serdes: keys and values of Kafka's records as bytes, and the columns that they have here."""
