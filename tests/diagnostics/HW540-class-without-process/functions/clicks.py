class Nothing:
    def run(self, record):
        pass


class Counting:
    def __init__(self, most):
        self.most = most

    def process_batch(self, batch):
        pass


class Yielding:
    def process(self, record):
        yield record


def helper(record):
    return record
