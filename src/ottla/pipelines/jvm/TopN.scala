package ottla

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.TypeCheckResult
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{ImperativeAggregate, TypedImperativeAggregate}
import org.apache.spark.sql.catalyst.trees.BinaryLike
import org.apache.spark.sql.catalyst.util.{GenericArrayData, TypeUtils}
import org.apache.spark.sql.classic.Frames
import org.apache.spark.sql.types._

object TopN {
  def column(value: Column, order: Column, n: Int, lowest: Boolean): Column =
    Frames.column(TopN(Frames.expression(value), Frames.expression(order), n, lowest).toAggregateExpression())
}

/** An aggregate that keeps only the `n` values with the highest (or lowest) `order`, best first.
  *
  * At equal order the lower value goes first, so that the result does not depend on the order of the records. Rows
  * whose order is null do not count.
  */
case class TopN(
    value: Expression,
    order: Expression,
    n: Int,
    lowest: Boolean,
    mutableAggBufferOffset: Int = 0,
    inputAggBufferOffset: Int = 0)
    extends TypedImperativeAggregate[ArrayBuffer[InternalRow]]
    with BinaryLike[Expression] {
  type Best = ArrayBuffer[InternalRow] // of (order, value), best first

  override def left: Expression = value
  override def right: Expression = order
  override def nullable: Boolean = false
  override def dataType: DataType = ArrayType(value.dataType)
  override def prettyName: String = "top_n"

  override def checkInputDataTypes(): TypeCheckResult = TypeUtils.checkForOrderingExpr(order.dataType, prettyName)

  override def createAggregationBuffer(): Best = new ArrayBuffer[InternalRow](n + 1)

  override def update(best: Best, input: InternalRow): Best = {
    val rank = order.eval(input)
    if (rank != null) {
      val entry = InternalRow(rank, value.eval(input))
      if (best.length < n || better.compare(entry, best.last) < 0) insert(best, entry.copy())
    }
    best
  }

  override def merge(best: Best, other: Best): Best = {
    other.foreach(insert(best, _))
    best
  }

  override def eval(best: Best): Any = new GenericArrayData(best.iterator.map(_.get(1, value.dataType)).toArray[Any])

  override def serialize(best: Best): Array[Byte] =
    projection(InternalRow(new GenericArrayData(best.toArray[Any]))).getBytes

  override def deserialize(bytes: Array[Byte]): Best = {
    val row = new UnsafeRow(1)
    row.pointTo(bytes, bytes.length)
    val entries = row.getArray(0)
    ArrayBuffer.tabulate(entries.numElements)(entries.getStruct(_, 2))
  }

  private def insert(best: Best, entry: InternalRow): Unit = {
    best.insert(best.lastIndexWhere(better.compare(_, entry) <= 0) + 1, entry)
    if (best.length > n) best.dropRightInPlace(1)
  }

  @transient private lazy val better: Ordering[InternalRow] = {
    val rank = TypeUtils.getInterpretedOrdering(order.dataType)
    val ties: Ordering[Any] =
      if (OrderUtils.isOrderable(value.dataType)) TypeUtils.getInterpretedOrdering(value.dataType) else (_, _) => 0
    (a, b) => {
      val ranked = rank.compare(a.get(0, order.dataType), b.get(0, order.dataType))
      if (ranked != 0) { if (lowest) ranked else -ranked }
      else {
        val (one, other) = (a.get(1, value.dataType), b.get(1, value.dataType))
        if (one == null || other == null) java.lang.Boolean.compare(one != null, other != null)
        else ties.compare(one, other)
      }
    }
  }

  @transient private lazy val projection: UnsafeProjection = {
    val entry = new StructType().add("order", order.dataType).add("value", value.dataType)
    UnsafeProjection.create(new StructType().add("best", ArrayType(entry)))
  }

  override def withNewMutableAggBufferOffset(offset: Int): ImperativeAggregate = copy(mutableAggBufferOffset = offset)
  override def withNewInputAggBufferOffset(offset: Int): ImperativeAggregate = copy(inputAggBufferOffset = offset)
  override protected def withNewChildrenInternal(newLeft: Expression, newRight: Expression): TopN =
    copy(value = newLeft, order = newRight)
}
