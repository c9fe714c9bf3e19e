"""What a step and an operation are, and what each of them is given and returns. No single operation is known here."""
