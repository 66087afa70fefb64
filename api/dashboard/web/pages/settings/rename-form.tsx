import { TextInput } from '@mantine/core'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { callAuth } from '../../api.ts'
import { RowForm } from '../../components/form.tsx'
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
  return (
    <RowForm mutation={rename} submit="Rename" variant="default" disabled={name.trim() === place.name}>
      <TextInput
        label="Organisation name"
        required
        maxLength={100}
        w={280}
        value={name}
        onChange={event => setName(event.currentTarget.value)}
      />
    </RowForm>
  )
}
