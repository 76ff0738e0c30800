package ottla

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.GetColumnByOrdinal
import org.apache.spark.sql.catalyst.encoders.{ExpressionEncoder, RowEncoder}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode, FalseLiteral}
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.catalyst.plans.logical.{FlatMapGroupsWithState, LocalRelation, LogicalGroupState, Project}
import org.apache.spark.sql.catalyst.util.TypeUtils
import org.apache.spark.sql.classic.Frames
import org.apache.spark.sql.streaming.{GroupState, GroupStateTimeout, OutputMode}
import org.apache.spark.sql.types._

/** What happens to one key in one batch: its rows and its state in, rows out.
  *
  * Rows, state and results are Spark's internal rows, passed on as they are: a key or a value of whatever type is never
  * taken apart. `rows` are copies. `keyRow` has the key as its field Keyed.Key; it is valid until the results have been
  * read.
  */
trait KeyFunction extends Serializable {
  type Rows = Array[UnsafeRow]
  type State = GroupState[InternalRow]

  def apply(keyRow: InternalRow, rows: Rows, state: State): Iterator[InternalRow]
}

/** Cells of a type. (`row.get(i, type)` does the same, but looks the type up each time, which is dear.) */
final class Cell(kind: DataType) extends Serializable {
  @transient private lazy val read = InternalRow.getAccessor(kind)
  @transient private lazy val equal: (Any, Any) => Boolean =
    if (OrderUtils.isOrderable(kind)) TypeUtils.getInterpretedOrdering(kind).equiv(_, _) else (_, _) => false

  def apply(row: SpecializedGetters, i: Int): Any = read(row, i)

  /** Whether two of them, or nulls, are equal. What Spark does not compare (maps) counts as different. */
  def same(a: Any, b: Any): Boolean = if (a == null || b == null) a == null && b == null else equal(a, b)
}

/** Spark's flatMapGroupsWithState over its column `key`, without the detour through Scala objects.
  *
  * Groups are by (hash of the key, key). Spark sorts a batch by what it groups by, and compares the first 8 bytes before
  * anything else: those of a hash nearly always differ, those of keys such as user000123 do not.
  *
  * The checkpoint's state schema is `state`, so that Spark refuses a restart whose types do not fit the state.
  */
object Keyed {
  val Key = 1

  def apply(
      frame: DataFrame,
      state: StructType,
      output: StructType,
      timers: Boolean,
      function: KeyFunction): DataFrame = {
    val unhashed = frame.queryExecution.analyzed
    val key = unhashed.output.find(_.name == "key").get
    val hash = Alias(new XxHash64(Seq(key)), "hash")()
    val plan = Project(unhashed.output :+ hash, unhashed) // last, so that columns keep their places
    val group = Seq(hash.toAttribute, key)
    val result = AttributeReference("result", output, nullable = false)()
    val call = (key: Any, rows: Iterator[Any], state: LogicalGroupState[Any]) =>
      function(
        key.asInstanceOf[InternalRow],
        if (rows.hasNext) copies(rows) else Array.empty,
        state.asInstanceOf[GroupState[InternalRow]])
    val grouped = new FlatMapGroupsWithState(
      call,
      WholeRow(),
      WholeRow(),
      group,
      plan.output,
      result,
      encoder(state).asInstanceOf[ExpressionEncoder[Any]],
      OutputMode.Append,
      isMapGroupsWithState = false,
      if (timers) GroupStateTimeout.EventTimeTimeout() else GroupStateTimeout.NoTimeout(),
      hasInitialState = false,
      group,
      plan.output,
      WholeRow(),
      LocalRelation(state),
      plan)
    val columns = output.zipWithIndex.map { case (field, i) => Alias(GetStructField(result, i), field.name)() }
    Frames.of(frame, Project(columns, grouped))
  }

  private def copies(rows: Iterator[Any]): Array[UnsafeRow] = {
    val first = rows.next().asInstanceOf[UnsafeRow].copy()
    if (!rows.hasNext) Array(first)
    else {
      val copies = ArrayBuffer(first)
      while (rows.hasNext) copies += rows.next().asInstanceOf[UnsafeRow].copy()
      copies.toArray
    }
  }

  /** State rows in and out of the state store as they are. */
  private def encoder(schema: StructType): ExpressionEncoder[_] = {
    val row = BoundReference(0, schema, nullable = true)
    val fields = schema.zipWithIndex.flatMap { case (field, i) => Seq(Literal(field.name), GetStructField(row, i)) }
    val columns = schema.zipWithIndex.map { case (field, i) => GetColumnByOrdinal(i, field.dataType) }
    new ExpressionEncoder(RowEncoder.encoderFor(schema), CreateNamedStruct(fields), RowOf(columns))
  }
}

/** The input row itself as an object. */
case class WholeRow() extends LeafExpression {
  override def nullable: Boolean = false
  override def dataType: DataType = ObjectType(classOf[InternalRow])
  override def eval(input: InternalRow): Any = input
  override def doGenCode(context: CodegenContext, code: ExprCode): ExprCode =
    code.copy(
      code = code"final InternalRow ${code.value} = (InternalRow) ${context.INPUT_ROW};",
      isNull = FalseLiteral)
}

/** A row, as an object, of these values as they are. */
case class RowOf(children: Seq[Expression]) extends Expression {
  override def nullable: Boolean = false
  override def dataType: DataType = ObjectType(classOf[InternalRow])
  override def eval(input: InternalRow): Any = new GenericInternalRow(children.map(_.eval(input)).toArray)
  override def doGenCode(context: CodegenContext, code: ExprCode): ExprCode = {
    val values = context.freshName("values")
    val filled = children.zipWithIndex.map { case (child, i) =>
      val made = child.genCode(context)
      code"""${made.code}
        $values[$i] = ${made.isNull} ? null : (Object) ${made.value};"""
    }
    val row = classOf[GenericInternalRow].getName
    code.copy(
      code = code"""Object[] $values = new Object[${children.size}];
        ${filled.reduce((a, b) => code"$a\n$b")}
        final InternalRow ${code.value} = new $row($values);""",
      isNull = FalseLiteral)
  }
  override protected def withNewChildrenInternal(children: IndexedSeq[Expression]): Expression = copy(children)
}
