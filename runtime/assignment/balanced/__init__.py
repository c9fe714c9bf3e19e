"""The assignor `balanced`: all tasks run again as soon as possible, and as little state as possible is moved."""
