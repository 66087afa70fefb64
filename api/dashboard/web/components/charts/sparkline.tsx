const width = 100
const height = 28

/** A line without axes; null values are gaps of zero. It is decoration: the figure beside it says the total. */
export function Sparkline({ values, color }: { values: readonly (number | null)[]; color: string }) {
  const max = Math.max(...values.map(value => value ?? 0))
  if (max <= 0 || values.length < 2) return null
  const points = values.map((value, i) => {
    const x = (i / (values.length - 1)) * width
    return `${x.toFixed(1)},${((1 - (value ?? 0) / max) * (height - 2) + 1).toFixed(1)}`
  })
  return (
    <svg
      aria-hidden
      viewBox={`0 0 ${width} ${height}`}
      preserveAspectRatio="none"
      width="100%"
      height={height}
      style={{ display: 'block', color }}
    >
      <polygon points={`0,${height} ${points.join(' ')} ${width},${height}`} fill="currentColor" opacity={0.12} />
      <polyline
        points={points.join(' ')}
        fill="none"
        stroke="currentColor"
        strokeWidth={1.5}
        vectorEffect="non-scaling-stroke"
      />
    </svg>
  )
}
