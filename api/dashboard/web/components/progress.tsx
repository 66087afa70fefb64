import { Group, Progress, Text } from '@mantine/core'
import type { ReactNode } from 'react'

type Part = { label: string; share: number; color: string }

/** A progress bar; the same numbers are shown as text beside it. */
export function LiveProgress({
  label,
  percent,
  moving,
  children,
}: {
  /** The accessible name of the bar. */
  label: string
  percent: number
  moving: boolean
  children: ReactNode
}) {
  return (
    <Parts label={label} percent={percent} parts={[{ label, share: percent, color: 'water' }]} moving={moving}>
      {children}
    </Parts>
  )
}

/** A progress bar of several segments, in percent. */
export function Parts({
  label,
  percent,
  parts,
  moving,
  children,
}: {
  label: string
  percent: number
  parts: Part[]
  moving: boolean
  children: ReactNode
}) {
  return (
    <Group gap="xs" wrap="nowrap" style={{ minWidth: 140 }}>
      <Progress.Root
        role="progressbar"
        aria-label={label}
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={Math.round(percent)}
        style={{ flex: 1, minWidth: 60 }}
      >
        {parts.map(({ label: name, share, color }) => (
          <Progress.Section key={name} withAria={false} value={share} color={color} animated={moving} />
        ))}
      </Progress.Root>
      <Text size="xs" className="numeric" style={{ whiteSpace: 'nowrap' }}>
        {children}
      </Text>
    </Group>
  )
}
