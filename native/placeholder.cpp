// The kernel is a library; this keeps it one before its parts exist.
