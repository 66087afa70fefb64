import { Button, Group, Stack, TextInput } from '@mantine/core'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { callAuth } from '../../api.ts'
import { Failure } from '../../components/states.tsx'
import { usePlace } from '../../session.tsx'

/** Changes the organisation's name. */
export function RenameForm() {
  const place = usePlace()
  const queries = useQueryClient()
  const [name, setName] = useState(place.name)
  const rename = useMutation({
    mutationFn: () => callAuth('organization/update', { organizationId: place.id, data: { name: name.trim() } }),
    onSuccess: () => queries.invalidateQueries({ queryKey: ['me'] }),
  })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    rename.mutate()
  }
  return (
    <form onSubmit={submit}>
      <Stack gap="xs">
        <Group align="flex-end">
          <TextInput
            label="Organisation name"
            required
            maxLength={100}
            w={280}
            value={name}
            onChange={event => setName(event.currentTarget.value)}
          />
          <Button type="submit" variant="default" loading={rename.isPending} disabled={name.trim() === place.name}>
            Rename
          </Button>
        </Group>
        {rename.error && <Failure error={rename.error} />}
      </Stack>
    </form>
  )
}
