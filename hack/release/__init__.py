"""What a release needs: versions that agree, and the files that users download.

It needs only Python, so that it runs on any machine. `python3 -m hack.release --help` lists the commands.
"""
