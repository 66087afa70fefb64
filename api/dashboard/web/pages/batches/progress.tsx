import { Text } from '@mantine/core'
import type { BatchRow } from '../../../wire/batches.ts'
import { Parts } from '../../components/progress.tsx'
import { count } from '../../format.ts'
import { isOver } from './queries.ts'

/** How many lines have a result, and how many of those failed. */
export function BatchProgress({ batch, label }: { batch: BatchRow; label: string }) {
  const { total, completed, failed } = batch
  if (total === 0)
    return (
      <Text size="xs" c="dimmed">
        {isOver(batch) ? 'no lines were run' : 'counting lines'}
      </Text>
    )
  const share = (lines: number) => (lines / total) * 100
  return (
    <Parts
      label={label}
      percent={share(completed + failed)}
      parts={[
        { label: 'completed', share: share(completed), color: 'teal' },
        { label: 'failed', share: share(failed), color: 'red' },
      ]}
      moving={!isOver(batch)}
    >
      {wordsOf(batch)}
    </Parts>
  )
}

function wordsOf({ total, completed, failed }: BatchRow): string {
  const done = `${count(completed)} of ${count(total)}`
  return failed === 0 ? done : `${done}, ${count(failed)} failed`
}
