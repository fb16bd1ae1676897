"""What each keyword says, sorted by the types it speaks about; a function per keyword."""
