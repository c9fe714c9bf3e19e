"""A run on the driver: from the claim of an application through the epoch loop to the results."""
