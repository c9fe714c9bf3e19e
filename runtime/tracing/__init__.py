"""Where the time of a run goes, epoch by epoch: a file for viewers of traces, and the shares of the parts."""
