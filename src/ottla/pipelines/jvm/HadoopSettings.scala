package ottla

import org.apache.hadoop.conf.Configuration

/** Spark sends all of Hadoop's settings to the tasks of each stateful step, in every batch. */
object HadoopSettings {

  /** Forget which file each of these settings is from. Hadoop compresses that on its own for each, with a compressor made
    * for it: it took a sixth of the driver's time for a batch of a count. */
  def lighten(settings: Configuration): Unit = {
    settings.size() // so that it has read its files
    val origins = classOf[Configuration].getDeclaredField("updatingResource")
    origins.setAccessible(true)
    origins.get(settings).asInstanceOf[java.util.Map[_, _]].clear()
  }
}
