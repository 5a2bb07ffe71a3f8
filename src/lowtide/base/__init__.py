"""What every part uses: errors, files, units, constants; knows nothing of programs."""
