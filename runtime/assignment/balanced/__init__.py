"""The assignor `balanced`: soonest all running again, with least state moved."""
