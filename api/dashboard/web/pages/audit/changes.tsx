import { Code, Stack, Text } from '@mantine/core'
import type { AuditEvent } from '../../../wire/audit.ts'
import { exactUsd, moment } from '../../format.ts'

/** The old and new value of each changed field; for a new object, its values. */
export function ChangeList({ action, changes }: Pick<AuditEvent, 'action' | 'changes'>) {
  const isEdit = /changed|updated|rolled|removed/.test(action)
  const fields = Object.entries(changes)
  if (fields.length === 0) return null
  return (
    <Stack gap={4}>
      {fields.map(([field, [before, after]]) => (
        <Text key={field} size="xs" style={{ overflowWrap: 'anywhere' }} lineClamp={4}>
          <Code>{field}</Code>{' '}
          {isEdit && (
            <>
              <Text span inherit c="dimmed">
                {valueText(field, before)}
              </Text>
              {' → '}
            </>
          )}
          {valueText(field, after)}
        </Text>
      ))}
    </Stack>
  )
}

/** Formats an API value for display. */
function valueText(field: string, value: unknown): string {
  if (value === null || value === '') return 'none'
  if (typeof value === 'boolean') return value ? 'yes' : 'no'
  if (Array.isArray(value))
    return value.some(one => typeof one === 'object') ? JSON.stringify(value) : value.join(', ') || 'none'
  if (typeof value === 'object') return partsOf(value)
  if (field.endsWith('_usd')) return exactUsd(Number(value))
  if (/_(at|until)$/.test(field)) return moment(String(value))
  return String(value)
}

/** The parts of a setting that are set. */
function partsOf(setting: object): string {
  const parts = Object.entries(setting).filter(([, value]) => value !== null)
  return parts.map(([name, value]) => `${name}: ${valueText(name === 'until' ? 'until_at' : name, value)}`).join(', ')
}
