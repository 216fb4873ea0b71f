-- When positions were allotted, when claims were made, and who changed the frontier.

-- A partition had reached a position at a time: one row a minute while it grows, later one an hour or a day.
CREATE TABLE {schema}.milestone (
    position bigint NOT NULL,
    time bigint NOT NULL,
    partition smallint NOT NULL,
    PRIMARY KEY (partition, position)
);

-- The last changes that people made. `detail` is JSON.
CREATE TABLE {schema}.audit (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    time bigint NOT NULL,
    items bigint,
    actor text NOT NULL,
    action text NOT NULL,
    lane text,
    detail text
);

-- 0: not known, because an earlier version made the claim.
ALTER TABLE {schema}.claim ADD COLUMN claimed_at bigint NOT NULL DEFAULT 0;

-- Roles that may use the other tables may use these.
DO $$
DECLARE
    _grant record;
BEGIN
    FOR _grant IN
        SELECT a.privilege_type, a.is_grantable, coalesce(quote_ident(r.rolname), 'PUBLIC') AS grantee
        FROM pg_class AS c
        CROSS JOIN LATERAL aclexplode(c.relacl) AS a
        LEFT JOIN pg_roles AS r ON r.oid = a.grantee
        WHERE c.relname = 'dead' AND a.grantee <> c.relowner
            AND c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = {schema_literal})
    LOOP
        EXECUTE format(
            'GRANT %1$s ON %2$I.milestone, %2$I.audit TO %3$s%4$s', _grant.privilege_type, {schema_literal},
            _grant.grantee, CASE WHEN _grant.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END
        );
    END LOOP;
END
$$;
