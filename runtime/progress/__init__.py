"""What is committed, and what comes next: epochs are planned and committed; does a project still fit its log?"""
