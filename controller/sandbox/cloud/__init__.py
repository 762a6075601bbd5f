"""The sandbox cloud: an emulator of Verda's API with a price meter, stock and a state machine."""
