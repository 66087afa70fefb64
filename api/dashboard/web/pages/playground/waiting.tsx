import { Skeleton, Stack } from '@mantine/core'

/** The placeholder of a result in progress. */
export function Waiting({ label, height = 260 }: { label: string; height?: number }) {
  return (
    <Stack gap="xs" aria-busy="true">
      <output className="visually-hidden">{label}</output>
      <Skeleton height={height} />
    </Stack>
  )
}
