package ottla

import java.io.{BufferedOutputStream, File, FileOutputStream}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FSDataOutputStream, LocalFileSystem, Path, RawLocalFileSystem}
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager

/** The files of checkpoints, with those on a local disk made by Java alone.
  *
  * Hadoop's local file system runs `chmod` for each file that it makes, and again for the file with its checksum: two
  * processes for a note of a batch, of which there are two, and two more for the state of each partition. Files come
  * into sight by a rename when they are whole, as with any file system. */
class Checkpoints(path: Path, conf: Configuration) extends FileSystemBasedCheckpointFileManager(path, conf) {
  override def createTempFile(path: Path): FSDataOutputStream = fs match {
    case local: LocalFileSystem => create(local.pathToFile(path))
    case local: RawLocalFileSystem => create(local.pathToFile(path))
    case _ => super.createTempFile(path)
  }

  private def create(file: File): FSDataOutputStream = {
    file.getParentFile.mkdirs()
    new FSDataOutputStream(new BufferedOutputStream(new FileOutputStream(file)), null)
  }
}
