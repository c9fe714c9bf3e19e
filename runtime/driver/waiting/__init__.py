"""Why tasks take no records though there are some: whom they wait for, and why that one does not go on."""
