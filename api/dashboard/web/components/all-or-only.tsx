import { Group, Radio, Stack } from '@mantine/core'
import type { ReactNode } from 'react'

/** Everything, or only what is chosen below: nothing chosen is then an error and does not become everything. */
export function AllOrOnly({
  label,
  all,
  only,
  isAll,
  onChange,
  children,
}: {
  label: string
  all: string
  only: string
  isAll: boolean
  onChange: (isAll: boolean) => void
  children: ReactNode
}) {
  return (
    <Stack gap="xs">
      <Radio.Group label={label} value={isAll ? 'all' : 'only'} onChange={value => onChange(value === 'all')}>
        <Group mt="xs">
          <Radio value="all" label={all} />
          <Radio value="only" label={only} />
        </Group>
      </Radio.Group>
      {!isAll && children}
    </Stack>
  )
}
