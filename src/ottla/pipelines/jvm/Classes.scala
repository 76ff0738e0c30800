package ottla

/** What a session asks for to see that our classes are there. */
object Classes { val present = true }
