"""The assignor `balanced`: gets all tasks running again soonest, and moves the least state for it."""
