"""The join of two tables by a foreign key: subscriptions go to the other table's tasks, answers come back."""
