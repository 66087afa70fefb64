import { Anchor, Select, Text } from '@mantine/core'
import { Link } from 'wouter'
import type { DashboardKey } from '../../../wire/keys.ts'
import { usePlace } from '../../session.tsx'

/** Whether the user may use a key here: their own keys and test keys; admins, all keys. */
export function isUsable({ status, environment, may_manage }: DashboardKey): boolean {
  return status === 'active' && (environment === 'test' || may_manage)
}

const rememberedName = (organisationId: string) => `headgate-playground-key:${organisationId}`

export function rememberKey(organisationId: string, { id }: DashboardKey): void {
  localStorage.setItem(rememberedName(organisationId), id)
}

/** The last key used, otherwise a test key, otherwise any. */
export function preferredKey(organisationId: string, keys: DashboardKey[]): DashboardKey | undefined {
  const last = localStorage.getItem(rememberedName(organisationId))
  return keys.find(({ id }) => id === last) ?? keys.find(({ environment }) => environment === 'test') ?? keys[0]
}

/** Selects the API key of the playground's requests, and states who pays for them. */
export function KeyPicker({
  keys,
  value,
  onChange,
}: {
  keys: DashboardKey[]
  value: DashboardKey
  onChange: (key: DashboardKey) => void
}) {
  const { home } = usePlace()
  const groups = (['test', 'live'] as const).map(environment => ({
    group: environment === 'test' ? 'Test keys' : 'Live keys',
    items: keys
      .filter(key => key.environment === environment)
      .map(({ id, name, last4 }) => ({ value: id, label: `${name} (…${last4})` })),
  }))
  return (
    <Select
      label="API key"
      w={{ base: '100%', xs: 320 }}
      data={groups}
      value={value.id}
      allowDeselect={false}
      searchable={keys.length > 10}
      onChange={id => onChange(keys.find(key => key.id === id) ?? value)}
      inputWrapperOrder={['label', 'input', 'description', 'error']}
      description={
        value.environment === 'test' ? (
          'Sandbox: responses are simulated and free.'
        ) : (
          <Text span inherit>
            Live: real providers, paid from{' '}
            <Anchor component={Link} href={`${home}/billing`} inherit>
              the organisation’s credits
            </Anchor>
            .
          </Text>
        )
      }
    />
  )
}
