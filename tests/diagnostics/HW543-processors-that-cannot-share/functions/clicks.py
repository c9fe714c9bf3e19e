class Counting:
    def process(self, record):
        pass


class Many:
    def process_batch(self, batch):
        return None
