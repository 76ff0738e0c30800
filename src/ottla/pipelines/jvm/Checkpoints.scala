package ottla

import java.io.{BufferedOutputStream, File, FileOutputStream}
import java.nio.channels.FileChannel
import java.nio.file.{Files, NoSuchFileException}
import java.nio.file.StandardOpenOption.READ

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FSDataOutputStream, LocalFileSystem, Path, RawLocalFileSystem}
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager

/** The files of checkpoints, with those on a local disk made by Java alone, and on the disk when they are said to be.
  *
  * Hadoop's local file system runs `chmod` for each directory and file that it makes, and again for the file with its
  * checksum: two processes for a note of a batch, of which there are two, and two more for the state of each partition.
  * Files come into sight by a rename when they are whole, as with any file system.
  *
  * Hadoop leaves it to the kernel when files reach the disk. A power cut could take the note of a batch, but not the
  * broker's record that its tasks are done: the batch would be planned anew with other records, which they would skip. */
class Checkpoints(path: Path, conf: Configuration) extends FileSystemBasedCheckpointFileManager(path, conf) {
  override def mkdirs(path: Path): Unit = local(path) match {
    case Some(directory) => Files.createDirectories(directory.toPath)
    case None => super.mkdirs(path)
  }

  override def createTempFile(path: Path): FSDataOutputStream = local(path) match {
    case Some(file) =>
      file.getParentFile.mkdirs()
      new FSDataOutputStream(new BufferedOutputStream(new SyncedFile(file)), null)
    case None => super.createTempFile(path)
  }

  override def renameTempFile(from: Path, to: Path, overwrite: Boolean): Unit = {
    val file = local(to)
    for (snapshot <- file if snapshot.getName.endsWith(".zip")) syncTables(snapshot.getParentFile)
    super.renameTempFile(from, to, overwrite)
    file.foreach(renamed => sync(renamed.getParentFile))
  }

  private def local(path: Path): Option[File] = fs match {
    case local: LocalFileSystem => Some(local.pathToFile(path))
    case local: RawLocalFileSystem => Some(local.pathToFile(path))
    case _ => None
  }

  /** The tables of RocksDB that a snapshot refers to: Spark copies them there itself. One may be old, and deleted now. */
  private def syncTables(state: File): Unit =
    for (tables <- Option(new File(state, "SSTs").listFiles); table <- tables)
      try sync(table)
      catch { case _: NoSuchFileException => }

  private def sync(file: File): Unit = {
    val opened = FileChannel.open(file.toPath, READ)
    try opened.force(true)
    finally opened.close()
  }
}

/** A file that is on the disk once it is closed. */
final class SyncedFile(file: File) extends FileOutputStream(file) {
  override def close(): Unit = {
    if (getChannel.isOpen) getFD.sync()
    super.close()
  }
}
