"""The values that pass from room to room: frozen, in seconds and bytes."""
