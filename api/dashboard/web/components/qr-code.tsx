import { encode } from 'uqr'

const quiet = 4

/** Text as a QR code. Always dark on light, because cameras need it, also in the dark colour scheme. */
export function QrCode({ text, label, size = 208 }: { text: string; label: string; size?: number }) {
  const { data, size: modules } = encode(text, { border: 0 })
  const path = data
    .flatMap((row, y) => row.map((isDark, x) => (isDark ? `M${x + quiet} ${y + quiet}h1v1h-1z` : '')))
    .join('')
  const side = modules + 2 * quiet
  return (
    <svg
      role="img"
      aria-label={label}
      width={size}
      height={size}
      viewBox={`0 0 ${side} ${side}`}
      shapeRendering="crispEdges"
      style={{ maxWidth: '100%', borderRadius: 4 }}
    >
      <rect width={side} height={side} fill="#fff" />
      <path d={path} fill="#000" />
    </svg>
  )
}
