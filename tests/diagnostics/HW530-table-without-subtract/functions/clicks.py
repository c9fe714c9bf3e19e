class Count:
    def initial(self):
        return {"n": 0}

    def add(self, state, key, value):
        return {"n": state.n + 1}
