import { Stack, Switch } from '@mantine/core'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import type { SecurityAnswer } from '../../../wire/person.ts'
import { call } from '../../api.ts'
import { Failure } from '../../components/states.tsx'
import { usePlace } from '../../session.tsx'

/** Whether the organisation requires two-factor sign-in of its members. */
export function TwoFactorSwitch() {
  const place = usePlace()
  const queries = useQueryClient()
  const change = useMutation({
    mutationFn: (required: boolean) =>
      call<SecurityAnswer>(`${place.base}/security`, { method: 'PATCH', body: { require_two_factor: required } }),
    onSuccess: () => queries.invalidateQueries({ queryKey: ['me'] }),
  })
  return (
    <Stack gap="xs">
      <Switch
        label="Require two-factor sign-in"
        description="Members who sign in with a password cannot access the organisation until they have set up an authenticator app."
        checked={place.require_two_factor}
        disabled={change.isPending}
        onChange={event => change.mutate(event.currentTarget.checked)}
      />
      {change.error && <Failure error={change.error} />}
    </Stack>
  )
}
