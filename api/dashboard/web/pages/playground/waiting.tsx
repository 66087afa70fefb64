import { Skeleton, Stack } from '@mantine/core'

/** The place of a result while it is made. */
export function Waiting({ label, height = 260 }: { label: string; height?: number }) {
  return (
    <Stack gap="xs" aria-busy="true">
      <output className="visually-hidden">{label}</output>
      <Skeleton height={height} />
    </Stack>
  )
}
